from driftless.deploy.flower import server_app
from federation.task import model, test_set

app = server_app(model, test=test_set)
