"""One turn of work of an agent that speaks the Agent Client Protocol (protocol 1): the supervisor's child of the engine `acp`.

Run as ``python -P -m orchconverge.acp_client SPEC``; `spec.Spec` says what SPEC holds. The agent is started first, and while it
boots the SDK is imported. It is given the prompt, in a new session or in one that is loaded; its questions for permission
are answered, by what they are about and never by their ids; what it does is told on standard output: one JSON object a
line, ``acp`` for our parser, the rest so that the supervisor's pane shows a sentence. SIGTERM cancels the session, then
ends the agent. A file system or terminals of ours are not offered.

Nothing that the agent sends is believed in type, and what is unknown is left out. Its own lines are marked, so that none
passes for ours. Exit codes: 0 the agent ended its turn, 1 it did not, 66 no usable SPEC, 143 stopped.
"""
