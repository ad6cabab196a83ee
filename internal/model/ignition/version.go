package ignition

import (
	"slices"

	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/vcontext/report"
)

// MediaType is the media type of a configuration over HTTP. Its parameter
// "version" asks for a spec version.
const MediaType = "application/vnd.coreos.ignition+json"

// Newest is the newest stable spec version that this package writes and
// reads.
const Newest = "3.5.0"

// dialect is one spec version with its own parser's check.
type dialect struct {
	version string
	check   func(raw []byte) (report.Report, error)
}

// dialects are in rising order of version.
var dialects = []dialect{
	{"3.0.0", checker(v30.Parse)},
	{"3.1.0", checker(v31.Parse)},
	{"3.2.0", checker(v32.Parse)},
	{"3.3.0", checker(v33.Parse)},
	{"3.4.0", checker(v34.Parse)},
	{Newest, checker(v35.Parse)},
}

func checker[T any](parse func([]byte) (T, report.Report, error)) func([]byte) (report.Report, error) {
	return func(raw []byte) (report.Report, error) {
		_, rpt, err := parse(raw)
		return rpt, err
	}
}

// Versions returns the spec versions that Marshal writes, oldest first.
func Versions() []string {
	names := make([]string, 0, len(dialects))
	for _, d := range dialects {
		names = append(names, d.version)
	}
	return names
}

func dialectOf(version string) (dialect, bool) {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.version == version })
	if i < 0 {
		return dialect{}, false
	}
	return dialects[i], true
}
