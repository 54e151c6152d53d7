/* Only in core_mutants; see mutant.h. */
#include "core/mutant.h"

enum hf_mutant hf_mutant_active = HF_MUTANT_NONE;
