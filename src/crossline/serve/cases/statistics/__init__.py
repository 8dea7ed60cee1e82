"""What rules did, counted as alerts, decisions and labels come: reading it takes as long for many alerts as for few."""
