package ignition

import (
	"errors"
	"fmt"
	"strings"

	ignerrors "github.com/coreos/ignition/v2/config/shared/errors"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/coreos/vcontext/report"
)

// Parse reads a configuration of any spec version from 3.0.0 to Newest and
// returns it in terms of Newest. The error names every fault with its field
// path, and for an unsupported version the versions that are read. Fields that
// the version lacks are faults, too, since a host must not skip something that
// it was asked to do.
func Parse(raw []byte) (types.Config, error) {
	cfg, rpt, err := v35.ParseCompatibleVersion(raw)
	switch {
	case errors.Is(err, ignerrors.ErrUnknownVersion):
		return types.Config{}, Faults{{"ignition.version", "unsupported, this holdfast reads 3.0.0 to " + Newest}}
	case errors.Is(err, ignerrors.ErrEmpty):
		return types.Config{}, errors.New("ignition: the configuration is empty")
	case err != nil:
		return types.Config{}, fmt.Errorf("ignition: %w", faults(rpt, err))
	}
	if err := faults(onlyUnused(rpt), nil); err != nil {
		return types.Config{}, fmt.Errorf("ignition: %w", err)
	}
	return cfg, nil
}

// onlyUnused keeps the warnings about unknown fields; the others (for example an
// enabled unit without [Install]) are for the author, not for the host.
func onlyUnused(rpt report.Report) report.Report {
	var out report.Report
	for _, e := range rpt.Entries {
		if isUnused(e) {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

func isUnused(e report.Entry) bool {
	return e.Kind == report.Warn && strings.HasPrefix(e.Message, "unused key ")
}
