/* base/socket: how administration, the keeper and the namer make their Unix sockets (SEC-12). */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/socket.h"
#include "base/text.h"

static char directory[] = "/tmp/hf-socket-XXXXXX";
static char path[64];
static char other[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    hf_format(path, sizeof(path), "%s/socket", directory);
    hf_format(other, sizeof(other), "%s/other", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)unlink(other);
    return rmdir(directory);
}

static int call(int type)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(hf_text_copy(sun.sun_path, sizeof(sun.sun_path), path));
    if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0) {
        int error = errno;

        close(fd);
        return -error;
    }
    return fd;
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(lstat(name, &st), 0);
    return st.st_mode & 07777;
}

/* The socket has the mode that was asked for, whatever the umask is, and the umask is unchanged. */
static void the_mode_is_that_asked_for(void **state)
{
    mode_t before = umask(0077);
    int fd = hf_socket_listen_local(path, SOCK_STREAM, 0666, 4);

    (void)state;
    assert_int_equal(umask(before), 0077);
    assert_true(fd >= 0);
    assert_int_equal(mode_of(path), 0666);
    close(fd);
}

/* A socket that a killed process left behind is replaced. */
static void a_socket_that_was_left_behind_is_replaced(void **state)
{
    int fd = hf_socket_listen_local(path, SOCK_SEQPACKET, 0660, 4);
    int guest;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    fd = hf_socket_listen_local(path, SOCK_SEQPACKET, 0660, 4);
    assert_true(fd >= 0);
    assert_int_equal(mode_of(path), 0660);
    guest = call(SOCK_SEQPACKET);
    assert_true(guest >= 0);
    close(guest);
    close(fd);
}

/* A process that is too busy to accept keeps its socket: a full queue is no refusal. */
static void a_busy_process_keeps_its_socket(void **state)
{
    int guests[8];
    size_t n = 0;
    int fd = hf_socket_listen_local(path, SOCK_STREAM, 0660, 0);
    int guest;

    (void)state;
    assert_true(fd >= 0);
    while (n < 8 && (guest = call(SOCK_STREAM)) >= 0)
        guests[n++] = guest;
    assert_true(n < 8);
    assert_int_equal(guest, -EAGAIN);
    assert_int_equal(hf_socket_listen_local(path, SOCK_STREAM, 0660, 4), HF_EBUSY);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(hf_socket_clear_local(path, SOCK_STREAM), HF_EBUSY);
    assert_int_equal(mode_of(path), 0660);
    while (n > 0)
        close(guests[--n]);
    close(fd);
}

/* A file that is no socket, or a link to one, is neither removed nor changed. */
static void what_is_no_socket_stays(void **state)
{
    FILE *file = fopen(other, "w");

    (void)state;
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    (void)fclose(file);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(hf_socket_listen_local(path, SOCK_STREAM, 0666, 4), HF_EEXIST);
    assert_int_equal(hf_socket_listen_local(other, SOCK_STREAM, 0666, 4), HF_EEXIST);
    assert_int_equal(mode_of(other), 0600);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(hf_socket_listen_local(path, SOCK_STREAM, 0666, 4), HF_EEXIST);
}

static void a_path_that_cannot_be_used(void **state)
{
    char longer[200];

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(hf_socket_listen_local(longer, SOCK_STREAM, 0660, 4), HF_EINVAL);
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(hf_socket_clear_local(longer, SOCK_STREAM), HF_EINVAL);
    assert_int_equal(hf_socket_listen_local("/nowhere/at/all", SOCK_STREAM, 0660, 4), HF_EUNAVAIL);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(hf_socket_clear_local(path, SOCK_STREAM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_mode_is_that_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_socket_that_was_left_behind_is_replaced, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_busy_process_keeps_its_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_socket_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_that_cannot_be_used, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
