package installation

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/model/site"
)

// Mixed returns an error if a host that began its installation with one site.json would go on with
// another, and then have certificates and steps of both. installed is true once the installation has
// ended: then one control plane is like another.
func Mixed(have, want *site.Site, installed bool) error {
	alike := have.Role == want.Role || installed && have.Role.ControlPlane() && want.Role.ControlPlane()
	var why string
	switch {
	case have.Identity.ClusterID != want.Identity.ClusterID:
		why = fmt.Sprintf("it is of another install directory: of cluster %s (id %s), and the configuration is of %s (id %s)",
			have.Domain(), have.Identity.ClusterID, want.Domain(), want.Identity.ClusterID)
	case have.Life.ID != want.Life.ID:
		why = "a restore has begun another life of the site, and the host and the configuration are not of the same one"
	case !alike:
		why = fmt.Sprintf("its role is %s, and the configuration is for role %s", have.Role, want.Role)
	default:
		return nil
	}
	return fmt.Errorf("the installation of this host has begun, and %s: take the host's state away first (holdfast-agent wipe), then apply it again", why)
}
