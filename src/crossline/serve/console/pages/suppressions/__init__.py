"""Alerts that open no case for a time, and the fraud that this hid."""
