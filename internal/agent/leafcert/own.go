package leafcert

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// own returns from when on the certificates that the agent makes for Holdfast itself should have been
// made anew, by file. Packages identity and operatorkey make them. A host may lack them.
func (k *Keeper) own() map[string]time.Time {
	out := map[string]time.Time{}
	for _, path := range []string{state.AgentPair, filepath.Join(operator.EtcdFolder, operator.EtcdPair)} {
		info, err := os.Stat(k.Root + path)
		if err != nil {
			continue
		}
		data, unread := os.ReadFile(k.Root + path)
		leaf, err := keys.ReadLeaf(keys.SplitPair(string(data)))
		damaged := errors.Join(unread, err) != nil || !leaf.Matches
		out[path] = leafcert.Own{Ends: leaf.Ends, Life: keys.ClientLife(k.Life), Damaged: damaged, Written: info.ModTime()}.Late()
	}
	return out
}
