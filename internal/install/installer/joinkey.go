package installer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/site"
)

// ReplaceJoinKey creates a new key for join secrets. It gives the key to tell,
// which writes it into the cluster, and then saves it in the directory. It
// returns the site as it was before. Another run repairs one that was cut in
// between.
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

// Pointers returns the files of the directory that contain a join secret.
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
