from driftless.deploy.flower import client_app
from federation.task import data, model

app = client_app(model, data)
