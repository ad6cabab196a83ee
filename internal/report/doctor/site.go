package doctor

import (
	"fmt"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ReadSite reads the data that this host was installed with. On a machine that
// is no host of a cluster the fact is unknown, and the error says so.
func ReadSite() (state.Fact[Site], error) {
	data, err := os.ReadFile(site.Path)
	if err != nil {
		return state.Fact[Site]{}, err
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return state.Fact[Site]{}, fmt.Errorf("%s: %w", site.Path, err)
	}
	kept, err := settings.Load(s, settings.Path)
	if err != nil {
		return state.Fact[Site]{}, err
	}
	return state.Known(Site{
		Settings: kept, Workers: s.Topology().Workers, ControlPlane: s.Role.ControlPlane(), Flannel: s.Flannel(),
	}), nil
}
