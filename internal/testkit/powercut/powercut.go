// Package powercut lets a test cut a run at any of its effects on a host.
package powercut

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Err is the error of the effect at which a run is cut, and of all later ones.
var Err = errors.New("power cut")

// Cut counts effects, and cuts a run at one of them. The zero value cuts never.
type Cut struct {
	// Effects is the number of effects so far.
	Effects int
	// At is the number of the effect at which the run ends, counted from 1; zero
	// means never.
	At int
	// After makes the run end after that effect instead of before it.
	After bool
	// Dead is true once the run was cut. No effect happens until a test resets it.
	Dead bool
}

// Effect counts an effect and carries it out, unless the run is cut there.
func (c *Cut) Effect(do func() error) error {
	if c.Dead {
		return Err
	}
	c.Effects++
	if c.Effects != c.At {
		return do()
	}
	c.Dead = true
	if c.After {
		if err := do(); err != nil {
			return err
		}
	}
	return Err
}

// WriteFile writes a file as host.WriteFileAtomic does, without waiting for the
// disk.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, mode); err != nil {
		return err
	}
	return errors.Join(os.Chmod(path+".new", mode), os.Rename(path+".new", path))
}
