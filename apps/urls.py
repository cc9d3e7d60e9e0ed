"""Every address, app by app."""

urlpatterns: list = []
