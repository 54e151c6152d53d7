/* Only in core_planted; see plant.h. */
#include "core/plant.h"

enum hf_plant hf_planted = HF_PLANT_NONE;
