package labsite

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// ForceOff is the reset with which a fence cuts the power.
const ForceOff = "ForceOff"

// Reset is a request for a reset that the BMC of a host got.
type Reset struct {
	Host string
	// Line is the whole line of the lab's log.
	Line string
}

func (r Reset) String() string { return r.Line }

// LogEnd returns the current end of the lab's log.
func (s *Site) LogEnd() (int64, error) {
	st, err := os.Stat(s.Lab.LogPath())
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Resets returns the requests of a type for a reset that BMCs got since an offset in the
// lab's log, whether they acted or not. What the lab itself does to a host's power asks no
// BMC.
func (s *Site) Resets(from int64, kind string) ([]Reset, error) {
	f, err := os.Open(s.Lab.LogPath())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return resetsIn(data, kind), nil
}

func resetsIn(log []byte, kind string) []Reset {
	var out []Reset
	for line := range bytes.Lines(log) {
		text := strings.TrimSpace(string(line))
		if !strings.Contains(text, "msg=reset ") || !strings.Contains(text, " type="+kind+" ") {
			continue
		}
		r := Reset{Line: text}
		for field := range strings.FieldsSeq(text) {
			if name, found := strings.CutPrefix(field, "bmc="); found {
				r.Host = name
			}
		}
		out = append(out, r)
	}
	return out
}
