"""The page that opens a session."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from guardops.tenants.actors import acting
from guardops.tenants.errors import TooManyTries
from guardops.tenants.organisations import home_zone
from guardops.tenants.throttle import Guess, Try
from guardops.viewer import ZONE_OF_SESSION

from .throttled import too_many, try_of


class Login(LoginView):
    """Opens a session; afterwards goes to ``next`` where that is an address of ours."""

    template_name = "tenants/login.html"
    redirect_authenticated_user = True
    taken: Try

    def get_success_url(self) -> str:
        # Django takes a way back to this page itself for a mistake of ours and fails; it is the visitor's.
        target = super().get_success_url()
        return self.get_default_redirect_url() if target == self.request.path else target

    def post(self, request: HttpRequest, *args: Any, **options: Any) -> HttpResponse:
        try:
            self.taken = try_of(request, Guess.PASSWORD, request.POST.get("username", ""))
        except TooManyTries as error:
            return too_many(request, error, next=self.get_redirect_url())
        return super().post(request, *args, **options)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        self.taken.succeeded(timezone.now())
        # The audit trail shows a login as a change of the person by the person.
        with acting(form.get_user()):
            response = super().form_valid(form)
        self.request.session[ZONE_OF_SESSION] = home_zone(form.get_user())
        return response
