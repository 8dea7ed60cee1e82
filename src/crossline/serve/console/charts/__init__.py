"""Values drawn as SVG, to a given width in pixels: text is never scaled.

Colours, weights and dashes are classes of ``assets/css/71-charts.css``; an element has attributes of SVG and nothing
of CSS, so that a content security policy without inline style holds.
"""
