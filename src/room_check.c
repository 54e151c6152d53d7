/* See src/meson.build: this program is linked with one room and the rooms it may use, and is never
 * run. */
int main(void)
{
    return 0;
}
