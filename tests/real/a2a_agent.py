"""An A2A agent on the official SDK, speaking 1.0 and 0.3 over JSON-RPC: a2a_agent.py PORT. What a message says decides how it ends."""
import sys

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers.default_request_handler_v2 import DefaultRequestHandlerV2
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

PORT = int(sys.argv[1])
PIECES = ["Hello ", "naïve 👋", " world."]


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        asked = context.get_user_input()
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([new_text_part("Thinking...")]))
        if "ask" in asked:
            await updater.requires_input(updater.new_agent_message([new_text_part("Which city?")]))
            return
        for number, piece in enumerate(PIECES):
            last = number == len(PIECES) - 1
            await updater.add_artifact(
                [new_text_part(piece)], artifact_id="reply", name="reply", append=number > 0, last_chunk=last
            )
        if "fail" in asked:
            await updater.failed(updater.new_agent_message([new_text_part("It failed.")]))
        else:
            await updater.complete()

    async def cancel(self, context, event_queue):
        raise NotImplementedError


def interface(version):
    return AgentInterface(url=f"http://127.0.0.1:{PORT}/", protocol_binding="JSONRPC", protocol_version=version)


card = AgentCard(
    name="real",
    description="an agent for tests",
    version="1.0.0",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=True),
    supported_interfaces=[interface("1.0"), interface("0.3")],
    skills=[AgentSkill(id="s", name="s", description="s", tags=["t"])],
)
handler = DefaultRequestHandlerV2(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=PORT, log_level="warning")
