#!/usr/bin/env python3
"""The wire: answers to good and bad calls, on UDP and TCP, IPv4 and IPv6 (NSM-01, NLM-01, RPC-01, RPC-02)."""
from holdfast_test import netns, rpc, rpcbind, tap
from holdfast_test.daemon import PORT, Daemon
from holdfast_test.xdr import Encoder

NSM, NLM = 100024, 100021
STAT = 1
RPCSEC_GSS = 6
LOOPBACKS = ("127.0.0.1", "::1")


def everywhere(port=PORT):
    """A client for each transport and address family, one after the other."""
    for host in LOOPBACKS:
        for transport in rpc.TRANSPORTS.values():
            with transport(host, port) as client:
                yield client


def sm_name(name):
    return Encoder().string(name).bytes()


def expect(reply, status, versions=None):
    assert reply.status == status, f"{reply.status}, expected {status}"
    assert reply.range == versions, f"versions {reply.range}, expected {versions}"


@tap.test
def every_version_of_both_programs_answers_null():
    """NSM-01a: Given a daemon, NULL of NSM 1 and of NLM 1, 3 and 4 is answered, with nothing in the answer."""
    with Daemon():
        for client in everywhere():
            for prog, vers in ((NSM, 1), (NLM, 1), (NLM, 3), (NLM, 4)):
                reply = client.call(prog, vers, 0)
                expect(reply, rpc.SUCCESS)
                assert reply.results == b""


@tap.test
def sm_stat_answers_an_odd_state():
    """NSM-04a, NSM-06a: STAT_SUCC and a state number, which is odd while the server is up."""
    with Daemon():
        for client in everywhere():
            d = client.call(NSM, 1, STAT, sm_name("client.example")).decode()
            assert d.int() == 0
            assert d.int() % 2 == 1
            d.end()


@tap.test
def unknown_programs_versions_and_procedures_are_told_apart():
    """NSM-01b: PROG_UNAVAIL; PROG_MISMATCH with the range that is served; PROC_UNAVAIL."""
    with Daemon():
        for client in everywhere():
            expect(client.call(100003, 3, 0), rpc.PROG_UNAVAIL)
            expect(client.call(rpcbind.PROG, 2, 0), rpc.PROG_UNAVAIL)  # it lives on port 111
            for vers in (0, 2, 0xffffffff):
                expect(client.call(NSM, vers, 0), rpc.PROG_MISMATCH, (1, 1))
            for vers in (0, 2, 5):
                expect(client.call(NLM, vers, 0), rpc.PROG_MISMATCH, (1, 4))
            expect(client.call(NSM, 1, 7), rpc.PROC_UNAVAIL)
            expect(client.call(NLM, 4, 24), rpc.PROC_UNAVAIL)
            expect(client.call(NLM, 4, 0xffffffff), rpc.PROC_UNAVAIL)
            expect(client.call(NLM, 1, 17), rpc.PROC_UNAVAIL)


@tap.test
def arguments_that_do_not_decode_are_garbage():
    """NSM-01c: Too short, too long by a byte of padding or by a word, beyond the bound: GARBAGE_ARGS."""
    good = sm_name("client")
    bad = (b"", good[:-1], good + b"\0\0\0\0", sm_name("n" * 1025),
           Encoder().uint(0xffffffff).bytes(), Encoder().uint(0x7fffffff).raw(b"abcd").bytes())
    with Daemon():
        for client in everywhere():
            expect(client.call(NSM, 1, STAT, sm_name("n" * 1024)), rpc.SUCCESS)
            for args in bad:
                expect(client.call(NSM, 1, STAT, args), rpc.GARBAGE_ARGS)
            expect(client.call(NSM, 1, 0, b"\0\0\0\0"), rpc.GARBAGE_ARGS)  # NULL takes none


@tap.test
def other_versions_of_rpc_are_refused():
    """RPC_MISMATCH, 2 to 2: RFC 5531, section 9."""
    with Daemon():
        for client in everywhere():
            for version in (0, 1, 3):
                reply = client.call(NSM, 1, 0, rpc_version=version)
                expect(reply, rpc.RPC_MISMATCH, (2, 2))


@tap.test
def credentials_are_judged():
    """AUTH_NONE and sound AUTH_SYS are taken, unsound is AUTH_BADCRED, others are AUTH_TOOWEAK."""
    sound = rpc.auth_sys("client.example", 1000, 1000, range(16))
    unsound = (rpc.auth_sys("n" * 256), rpc.auth_sys(gids=range(17)), (1, b""), (1, sound[1][:-4]))
    with Daemon():
        for client in everywhere():
            expect(client.call(NSM, 1, 0, cred=sound), rpc.SUCCESS)
            for cred in unsound:
                expect(client.call(NSM, 1, 0, cred=cred), rpc.AUTH_BADCRED)
            for flavor in (2, 3, RPCSEC_GSS, 390003):
                expect(client.call(NSM, 1, 0, cred=(flavor, b"12345678")), rpc.AUTH_TOOWEAK)


@tap.test
def what_is_no_call_gets_no_answer():
    """A reply, a call cut short, an empty message: each is dropped, and the next call is answered."""
    call = rpc.call_message(1, NSM, 1, 0)
    with Daemon():
        for client in everywhere():
            for message in (rpc.success_message(1), call[:20], call[:3], b""):
                client.send(message)
            client.call(NSM, 1, 0)  # its answer is the first that comes


@tap.test
def the_answer_comes_from_the_address_asked():
    """Given a host with several addresses, each call over UDP is answered from the one it went to."""
    with Daemon():
        for host in ("127.0.0.1", "127.0.0.7", "::1", *netns.ADDRESSES):
            for source in (None, "192.0.2.3" if "." in host else "2001:db8::2"):
                with rpc.Udp(host, PORT, source=(source, 0) if source else None) as client:
                    expect(client.call(NSM, 1, 0), rpc.SUCCESS)
                    assert client.sender[0] == host


@tap.test
def a_daemon_listens_only_where_it_is_told():
    """Given server.listen with two addresses, those answer and others do not."""
    with Daemon("server.listen=192.0.2.1,2001:db8::1", "server.port=5045"):
        for host in ("192.0.2.1", "2001:db8::1"):
            for transport in rpc.TRANSPORTS.values():
                with transport(host, 5045) as client:
                    expect(client.call(NSM, 1, 0), rpc.SUCCESS)
        try:
            rpc.Tcp("192.0.2.2", 5045).close()
        except ConnectionRefusedError:
            return
        raise AssertionError("a connection to an address not listed")


@tap.test
def many_requests_in_one_write_are_answered_in_order():
    """Given 1,000 calls in one write, a thousand answers come, in the order of the calls."""
    xids = [rpc.new_xid() for _ in range(1000)]
    calls = b"".join(rpc.record(rpc.call_message(xid, NSM, 1, 0)) for xid in xids)
    with Daemon():
        for host in LOOPBACKS:
            with rpc.Tcp(host, PORT) as client:
                client.send_raw(calls)
                assert [client.reply().xid for _ in xids] == xids


@tap.test
def requests_may_come_byte_by_byte():
    """Given two calls sent one byte at a time, both are answered."""
    xids = [rpc.new_xid(), rpc.new_xid()]
    calls = b"".join(rpc.record(rpc.call_message(xid, NSM, 1, STAT, sm_name("x"))) for xid in xids)
    with Daemon(), rpc.Tcp("127.0.0.1", PORT) as client:
        client.sock.setsockopt(rpc.socket.IPPROTO_TCP, rpc.socket.TCP_NODELAY, 1)
        for i in range(len(calls)):
            client.send_raw(calls[i:i + 1])
        assert [client.reply().xid for _ in xids] == xids


@tap.test
def requests_may_come_in_fragments():
    """One fragment per byte, empty ones between, a header split over fragments: all the same."""
    message = rpc.call_message(7, NSM, 1, STAT, sm_name("fragments"))
    cuts = (range(1, len(message)), (4, 4, 4, 20), (2,), (len(message),), (0, len(message)))
    with Daemon(), rpc.Tcp("127.0.0.1", PORT) as client:
        for cut in cuts:
            client.send_raw(rpc.record(message, *cut))
            expect(client.reply_to(7), rpc.SUCCESS)


@tap.test
def a_peer_that_ends_its_side_still_gets_its_answers():
    """Given calls followed by the end of the stream, the answers come, and then the end."""
    with Daemon(), rpc.Tcp("127.0.0.1", PORT) as client:
        for xid in range(100):
            client.send(rpc.call_message(xid, NSM, 1, 0))
        client.sock.shutdown(rpc.socket.SHUT_WR)
        assert [client.reply().xid for _ in range(100)] == list(range(100))
        assert client.is_closed()


@tap.test
def a_repeated_request_gets_the_same_answer():
    """RPC-01, SPEC section 4: SET done twice would be FALSE. The same call again is TRUE; under a new xid it
    is FALSE. The repeat is recognised from another port too: same host, same bytes. Over the other transport it is another
    client's (NLM-07)."""
    args = rpcbind.pmap(200100, 1, "tcp", 2049)
    with Daemon("rpcbind.mode=embedded"), \
            rpc.Udp("127.0.0.1", rpcbind.PORT, source=("127.0.0.1", 700)) as client, \
            rpc.Tcp("127.0.0.1", rpcbind.PORT, source=("127.0.0.1", 701)) as other, \
            rpc.Udp("127.0.0.1", rpcbind.PORT, source=("127.0.0.1", 702)) as port:
        def set_it(via, xid):
            return via.call(rpcbind.PROG, 2, rpcbind.SET, args, xid=xid).decode().bool()

        assert set_it(client, 71)
        assert [set_it(via, 71) for via in (client, port, client)] == [True] * 3
        assert not set_it(other, 71)
        assert [set_it(via, xid) for xid, via in ((72, client), (73, other))] == [False] * 2


if __name__ == "__main__":
    netns.enter()
    tap.main()
