"""The pages for kubelet and Prometheus."""

import httpx

from engine_operator.health import HealthServer, Pulse


async def test_live_until_a_loop_falls_silent_and_ready_once_the_watch_runs() -> None:
    now = 0.0
    pulse = Pulse(limit=10.0, clock=lambda: now)
    server = HealthServer(pulse, "127.0.0.1", 0)
    port = await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            assert (await http.get("/readyz")).status_code == 503
            pulse.started = True
            assert (await http.get("/readyz")).status_code == 200
            pulse.beat("sweep ns/ruth")
            assert (await http.get("/livez")).status_code == 200
            now = 11.0
            silent = await http.get("/livez")
            assert (silent.status_code, silent.text) == (503, "silent: sweep ns/ruth\n")
            pulse.forget("sweep ns/ruth")
            assert (await http.get("/livez")).status_code == 200
            assert "serval_live_leading" in (await http.get("/metrics")).text
    finally:
        await server.close()
