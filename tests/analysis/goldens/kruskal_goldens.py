"""Kruskal and Wallis's H and its effect size, from SciPy.

    python kruskal_goldens.py > kruskal_goldens.json

Values and groups come from NumPy's PCG64 with the seeds below; `p_chi2` is SciPy's, by the chi-squared law, which
permutations approach where no group is small; `p_exact` is over all distinct arrangements of the smallest case.
"""

import itertools
import json

import numpy
import scipy.stats


def statistic(values, groups):
    parts = [values[groups == g] for g in numpy.unique(groups)]
    return scipy.stats.kruskal(*parts)


def case(name, values, groups):
    values, groups = numpy.asarray(values, float), numpy.asarray(groups)
    h, p = statistic(values, groups)
    return {
        "name": name,
        "values": values.tolist(),
        "groups": groups.tolist(),
        "h": float(h),
        "epsilon_squared": float(h / (len(values) - 1)),
        "n_groups": len(numpy.unique(groups)),
        "p_chi2": float(p),
    }


def exact_p(one):
    values, groups = numpy.array(one["values"]), numpy.array(one["groups"])
    arrangements = [numpy.array(order) for order in itertools.permutations(range(len(values)))]
    as_large = sum(statistic(values[order], groups)[0] >= one["h"] - 1e-9 for order in arrangements)
    return as_large / len(arrangements)


def main():
    rng = numpy.random.default_rng(20250802)
    groups = rng.integers(0, 4, 60)
    many = rng.integers(0, 8, 400)
    cases = [
        case("alike", rng.normal(size=60), groups),
        case("apart", rng.normal(size=60) + 0.8 * groups, groups),
        case("ties", rng.integers(0, 5, 60), groups),
        case("ties apart", rng.integers(0, 5, 60) + groups, groups),
        case("many", rng.normal(size=400) + 0.15 * many, many),
        case("gaps", rng.normal(size=60), 3 * groups + 1),
        case("small", [1, 2, 3, 4, 7, 9], [0, 0, 1, 1, 2, 2]),
    ]
    cases[-1]["p_exact"] = exact_p(cases[-1])
    versions = {"numpy": numpy.__version__, "scipy": scipy.__version__}
    print(json.dumps({"versions": versions, "cases": cases}))


main()
