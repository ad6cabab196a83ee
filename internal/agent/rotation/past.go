package rotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// errRestored says that a wish is older than the last one that this host has followed.
var errRestored = errors.New("etcd was restored from before the last rotation of this authority, and this host keeps what that one gave it")

// remember notes that this host follows a rotation, before it does. Of one that a later one
// replaced it returns errRestored, and notes nothing.
func (k *Keeper) remember(a rotation.Authority, f rotation.Followed, phase rotation.Phase) error {
	path := k.Root + marks + string(a) + ".followed"
	past, err := readPast(path)
	switch {
	case err != nil:
		return err
	case past.Undone(f, phase):
		return byPerson{fmt.Errorf("%w. Replace it once more: holdfast ca rotate %s", errRestored, a)}
	case past.Last() == f.Of:
		return nil
	}
	text, err := json.Marshal(past.With(f))
	if err != nil {
		return err
	}
	return k.write(path, append(text, '\n'), state.SecretFileMode)
}

// readPast reads the rotations that this host has followed.
func readPast(path string) (rotation.Past, error) {
	var past rotation.Past
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &past)
	}
	if err != nil {
		return nil, fmt.Errorf("read which rotations this host has followed: %s: %w", path, err)
	}
	return past, nil
}
