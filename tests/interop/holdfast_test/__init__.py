"""What the wire tests share: XDR and RPC of their own, the daemon under test, a private network, TAP.

None of it uses a codec of the daemon: what both get wrong in the same way would not be seen.
"""
