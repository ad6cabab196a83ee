package doctor

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

// mirrors finds the files with mirrors of registries that containerd ignores.
func (l *observation) mirrors() ([]decide.Mirror, error) {
	folders, err := os.ReadDir(l.path(state.MirrorsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := []decide.Mirror{}
	for _, f := range folders {
		file := machineconfig.MirrorFile(f.Name())
		data, err := l.read(file)
		if errors.Is(err, fs.ErrNotExist) || !f.IsDir() && f.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		if faults := machineconfig.MirrorFaults(data); len(faults) > 0 {
			out = append(out, decide.Mirror{Path: file, Why: strings.Join(faults, "; ")})
		}
	}
	return out, nil
}
