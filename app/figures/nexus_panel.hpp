#pragma once

#include <string>

#include "app/figures/figure.hpp"
#include "capture/recording/hdf5.hpp"

namespace keyscope::figures {

// Fills an NXdata group with a panel's numbers, so that it opens as a plot: signal, axes, errors of none.
//   title: of the plot
void write_panel(recording::hdf5::Group& group, const Panel& panel, const std::string& title);

// Reads the numbers back into a panel whose names and looks are known.
//   throws FileError where datasets are missing, or their sizes contradict each other
void read_panel(const recording::hdf5::Group& group, Panel& panel);

// A name for a group or dataset, made of letters, digits, '_' and '-'; never empty.
std::string nexus_name(const std::string& text);

}  // namespace keyscope::figures
