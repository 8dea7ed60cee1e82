"""Where rules hold at records at which they raise no alert, and the alert of the crossing that each goes by.

Alerts are edges, decisions are states. The kernels mark each record that they keep with the lines that hold at it; what
is not an alert there is read off these marks, as columns.
"""
