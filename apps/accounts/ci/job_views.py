"""The user's trusted CI jobs on the page Account."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.account_page import Extra, render_account
from apps.accounts.ci import jobs
from apps.accounts.ci.forms import JobForm
from apps.accounts.models import Role, TrustedJob
from apps.accounts.services import user_of
from apps.accounts.tokens import lifecycle
from apps.web.pages import attempt, blame, needs
from common.errors import PlanError


@require_POST
@needs(Role.VIEWER)
def ci_job_add(request: HttpRequest) -> HttpResponse:
    user = user_of(request)
    form = JobForm(user, request.POST)
    if not form.is_valid():
        return render_account(request, Extra(job_form=form))
    fields = form.cleaned_data
    restriction, role = lifecycle.Restriction(fields["scopes"], fields.get("team")), Role(fields["role"])
    try:
        lifecycle.check_own_role(user, role)
        job = jobs.trust(
            user,
            fields["name"],
            role,
            issuer=fields["issuer"],
            claims=fields["claims"],
            minutes=fields["minutes"],
            restriction=restriction,
        )
    except PlanError as error:
        blame(form, error)
        return render_account(request, Extra(job_form=form))
    messages.success(request, f"Jobs with these claims can now exchange their ID token: proving login --ci {job.pk}")
    return redirect("account")


@require_POST
@needs(Role.VIEWER)
def ci_job_remove(request: HttpRequest, pk: int) -> HttpResponse:
    user = user_of(request)
    job = get_object_or_404(TrustedJob, pk=pk, user=user)
    attempt(request, lambda: jobs.distrust(job, by=user), f"{job.name} is removed, and its tokens have ended.")
    return redirect("account")


urlpatterns = [
    path("account/ci-jobs/", ci_job_add, name="ci_job_add"),
    path("account/ci-jobs/<int:pk>/remove/", ci_job_remove, name="ci_job_remove"),
]
