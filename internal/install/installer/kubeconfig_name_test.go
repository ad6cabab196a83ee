package installer_test

import (
	"net"
	"net/url"
	"testing"

	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// docs/facts/loss.md#hard-cases-of-loss, L77: a site moves to other addresses. The kubeconfig of
// the install directory names none, so the site's DNS is all that has to change for it.
func TestL77TheAdministratorsKubeconfigNamesNoAddress(t *testing.T) {
	for _, config := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6} {
		d := newDirectory(t, config)
		d.must(d.IgnitionConfigs)
		var file clientcmd.Config
		if err := yaml.Unmarshal([]byte(d.read(installer.Kubeconfig)), &file); err != nil {
			t.Fatal(err)
		}
		for _, c := range file.Clusters {
			u, err := url.Parse(c.Cluster.Server)
			if err != nil || net.ParseIP(u.Hostname()) != nil || u.Hostname() != "api.shop.example.test" {
				t.Errorf("it names %q, %v", c.Cluster.Server, err)
			}
			if c.Cluster.TLSServerName != "api.shop.example.test" {
				t.Errorf("it wants a certificate for %q", c.Cluster.TLSServerName)
			}
		}
		if len(file.Clusters) != 1 {
			t.Errorf("%d clusters", len(file.Clusters))
		}
	}
}
