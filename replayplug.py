from hypothesis import settings, Phase
def pytest_collection_modifyitems(items):
    for it in items:
        f=it.obj
        if hasattr(f,"_hypothesis_internal_use_settings"):
            f._hypothesis_internal_use_settings=settings(f._hypothesis_internal_use_settings, phases=[Phase.generate], max_examples=40)
