"""Serves a GGUF model with the llama.cpp server that the package xllamacpp brings: llama.py MODEL PORT."""
import sys
import time

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.offline = True
params.port = int(sys.argv[2])
params.n_ctx = 2048
params.n_parallel = 2
params.use_jinja = True
params.cpuparams.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
while True:
    time.sleep(3600)
