import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "guardops.settings")
os.environ.setdefault("GUARDOPS_PROCESS", "web")

application = get_wsgi_application()
