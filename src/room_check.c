/* See src/meson.build: linked with one room and the rooms it may use, and never run. */
int main(void)
{
    return 0;
}
