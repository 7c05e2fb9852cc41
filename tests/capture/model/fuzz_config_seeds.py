"""Seeds for fuzz_config: every family's config.json as it is, and with one field at a time that cannot be so.

    python3 fuzz_config_seeds.py FOLDER
"""

import json
import pathlib
import sys

HOSTILE = [0, -1, 3, 1.5, 1e300, 1 << 62, "", "mamba", None, True, [], [0], ["linear_attention"], {}]
# What every model has been tried with for long, and what nobody reads.
OLD = {"vocab_size", "bos_token_id", "pad_token_id", "initializer_range", "use_cache", "attention_dropout",
       "transformers_version", "output_router_logits", "router_aux_loss_coef", "architectures", "model_type"}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    configs = json.loads((pathlib.Path(__file__).parent / "goldens/family_configs.json").read_text())
    for name, config in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
        for field in config.keys() - OLD:
            for i, value in enumerate(HOSTILE):
                (folder / f"{name}.{field}.{i}.json").write_text(json.dumps(config | {field: value}))


if __name__ == "__main__":
    main()
