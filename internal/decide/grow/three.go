package grow

import (
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
)

// Three returns the site of three control planes that this site of two becomes by an edited
// install-config. have is the site.json of one of the two hosts. The file is what config.Parse returns,
// which refuses accounts of BMCs for three: they do not fence each other. It may differ as in Lone,
// and the feature set stays as there.
func Three(have *site.Site, file *config.InstallConfig) (*site.Site, error) {
	found, err := config.Compare(have.Config, file)
	if err != nil {
		return nil, err
	}
	return withoutFencing(have, file, found, three)
}

// ThreeOf returns the site of three control planes that this site of two becomes, without a file: each
// of the two hosts makes it by itself (docs/adr/0097). It is what Three returns for a file that changes
// nothing but the number.
func ThreeOf(have *site.Site) (*site.Site, error) {
	file := *have.Config
	file.ControlPlane.Replicas, file.ControlPlane.Fencing = new(int64(three)), nil
	return withoutFencing(have, &file, nil, three)
}
