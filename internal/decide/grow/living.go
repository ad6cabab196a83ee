package grow

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
)

// living are the fields of an install configuration that a living site has in objects of their
// own. The copies of the configuration in site.json and in the cluster stay those of the
// installation (docs/adr/0072, docs/adr/0089).
var living = []string{"sshKey", "proxy", "additionalTrustBundle"}

// Living returns an edited install-config with these fields as at the installation, for Site, Lone
// and Three, which compare a file with that. now is what the site has of the file today. A field
// that the file has otherwise is refused, as *config.RefusedError: nothing of a plan carries it to the
// hosts.
func Living(installed, now, file *config.InstallConfig) (*config.InstallConfig, error) {
	found, err := config.Compare(now, file)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(d config.Difference) bool { return !isLiving(d.Path) })
	for i := range found {
		found[i].How = "let the site have it first: " + found[i].How
		if found[i].File == "" {
			found[i].How = "leave it as the site has it"
		}
	}
	if err := refusal(installed.ControlPlaneReplicas(), file.ControlPlaneReplicas(), found); err != nil {
		return nil, err
	}
	out := *file
	out.SSHKey, out.Proxy, out.AdditionalTrustBundle = installed.SSHKey, installed.Proxy, installed.AdditionalTrustBundle
	return &out, nil
}

func isLiving(path string) bool {
	return slices.ContainsFunc(living, func(field string) bool {
		return path == field || strings.HasPrefix(path, field+".") || strings.HasPrefix(path, field+"[")
	})
}
