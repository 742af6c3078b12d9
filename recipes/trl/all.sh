#!/bin/bash
# From a corpus to a trained, measured model. What is done already is not done again.
. "$(dirname "$0")/settings.sh"
"$here/evaluate.sh" "$MODEL" before
[ -e "$WORK/sft/config.json" ] || "$here/sft.sh"
"$here/evaluate.sh" "$WORK/sft" after_sft
[ -e "$WORK/rft/config.json" ] || "$here/rft.sh"
[ -e "$WORK/grpo/config.json" ] || "$here/grpo.sh"
"$here/evaluate.sh" "$WORK/grpo" after
for name in before after_sft after; do
  python -c 'import json, sys; s = json.load(open(sys.argv[1])); p = s["policies"]["kernelbench"]["all"]
print(sys.argv[2], ": solved", p["problems_solved"], "of", p["tasks"], " pass@k", p["pass_at_k"])' "$WORK/$name/summary.json" "$name"
done
