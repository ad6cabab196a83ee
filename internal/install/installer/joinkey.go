package installer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/site"
)

// ReplaceJoinKey makes another key of join secrets: tell is given it for the
// cluster, and when that has it the directory has it too. It returns the site as
// it was before. A run that was cut off in between is mended by another one.
func (in *Installer) ReplaceJoinKey(tell func(key []byte) error) (*site.Site, error) {
	release, err := in.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	before, err := in.Made()
	if err != nil {
		return nil, err
	}
	st, err := in.readState()
	if err != nil {
		return nil, err
	}
	key, err := keys.JoinKey(in.Random)
	if err != nil {
		return nil, err
	}
	if err := tell(key); err != nil {
		return nil, err
	}
	st.Identity.JoinKey = key
	if err := in.writeState(st); err != nil {
		return nil, fmt.Errorf("the cluster has a new key of join secrets, and %s does not: run the command again: %w", in.Dir, err)
	}
	return before, nil
}

// Pointers are the files of the directory that hold a join secret.
func (in *Installer) Pointers() ([]string, error) {
	var out []string
	for _, pattern := range []string{"master.ign", "worker.ign", "join-*.ign"} {
		found, err := filepath.Glob(filepath.Join(in.Dir, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return slices.DeleteFunc(out, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	}), nil
}
