"""Values drawn as SVG, to a width in pixels that is told: text is never scaled.

Colours, weights and dashes are classes of ``assets/css/71-charts.css``; an element has attributes of SVG and nothing
of CSS, so that a content security policy without inline style holds.
"""
