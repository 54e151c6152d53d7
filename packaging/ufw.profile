[Holdfast]
title=Holdfast lock manager for NFSv3
description=NLM and NSM on port 4045 (server.port), and rpcbind, by which clients find them
ports=111,4045/tcp|111,4045/udp
