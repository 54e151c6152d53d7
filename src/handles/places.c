#include "handles/places.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"

/* Hashes the inode number alone, because a directory entry does not name the device. */
static uint64_t hash_of(const struct hf_places *places, ino_t ino)
{
    return hf_hash_u64(&places->key, (uint64_t)ino, 0);
}

struct file_key {
    dev_t device;
    ino_t ino;
};

static bool same_file(const struct hf_map_node *node, const void *key)
{
    const struct hf_place *place = hf_container_of(node, struct hf_place, node);
    const struct file_key *file = key;

    return place->device == file->device && place->ino == file->ino;
}

static bool same_wanted_ino(const struct hf_map_node *node, const void *key)
{
    const struct hf_place *place = hf_container_of(node, struct hf_place, node);

    return !place->path && place->ino == *(const ino_t *)key;
}

int hf_places_init(struct hf_places *places)
{
    *places = (struct hf_places){0};
    hf_list_init(&places->wanted);
    hf_list_init(&places->found);
    if (getrandom(&places->key, sizeof(places->key), 0) < 0)
        return HF_EUNAVAIL;
    return hf_map_init(&places->map, &hf_alloc_heap);
}

static void drop(struct hf_places *places, struct hf_place *place)
{
    HF_ASSERT(place);
    if (place->path)
        places->n_found--;
    else
        places->n_wanted--;
    hf_map_remove(&places->map, &place->node);
    hf_list_remove(&place->link);
    free(place->path);
    free(place);
}

void hf_places_free(struct hf_places *places)
{
    while (!hf_list_empty(&places->wanted))
        drop(places, hf_list_first(&places->wanted, struct hf_place, link));
    while (!hf_list_empty(&places->found))
        drop(places, hf_list_first(&places->found, struct hf_place, link));
    hf_map_free(&places->map);
}

struct hf_place *hf_places_get(struct hf_places *places, dev_t device, ino_t ino)
{
    struct file_key key = {device, ino};
    struct hf_map_node *node = hf_map_find(&places->map, hash_of(places, ino), same_file, &key);

    return node ? hf_container_of(node, struct hf_place, node) : NULL;
}

bool hf_places_may_want(const struct hf_places *places, ino_t ino)
{
    return places->n_wanted > 0 &&
           hf_map_find(&places->map, hash_of(places, ino), same_wanted_ino, &ino);
}

static void add(struct hf_places *places, dev_t device, ino_t ino, char *path)
{
    struct hf_list *list = path ? &places->found : &places->wanted;
    size_t *count = path ? &places->n_found : &places->n_wanted;
    size_t max = path ? HF_PLACES_FOUND_MAX : HF_PLACES_WANTED_MAX;
    struct hf_place *place = hf_places_get(places, device, ino);

    if (place)
        drop(places, place);
    if (*count == max)
        drop(places, hf_list_first(list, struct hf_place, link));
    place = calloc(1, sizeof(*place));
    if (!place) {
        free(path);
        return;
    }
    *place = (struct hf_place){.device = device, .ino = ino, .path = path, .round = places->round};
    hf_map_insert(&places->map, &place->node, hash_of(places, ino));
    hf_list_add_tail(list, &place->link);
    (*count)++;
}

void hf_places_want(struct hf_places *places, dev_t device, ino_t ino)
{
    add(places, device, ino, NULL);
}

void hf_places_put(struct hf_places *places, dev_t device, ino_t ino, const char *path)
{
    char *copy = strdup(path);
    struct hf_place *old;

    if (copy) {
        add(places, device, ino, copy);
        return;
    }
    old = hf_places_get(places, device, ino);
    if (old)
        drop(places, old);
}

void hf_places_give_up(struct hf_places *places)
{
    hf_list_foreach_safe (node, &places->wanted) {
        const struct hf_place *place = hf_list_entry(node, struct hf_place, link);

        if (place->round < places->round)
            hf_places_put(places, place->device, place->ino, "");
    }
}
