"""The page that opens a session."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse

from guardops.tenants.actors import acting


class Login(LoginView):
    """Opens a session; afterwards goes to ``next`` where that is an address of ours."""

    template_name = "tenants/login.html"
    redirect_authenticated_user = True

    def get_success_url(self) -> str:
        # Django takes a way back to this page itself for a mistake of ours and fails; it is the visitor's.
        target = super().get_success_url()
        return self.get_default_redirect_url() if target == self.request.path else target

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        # The audit trail shows a login as a change of the person by the person.
        with acting(form.get_user()):
            return super().form_valid(form)
