"""The Python library: records of any Arrow library, dicts or Spark frames in; alerts, decisions and features out."""
