package readdress_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/config"
)

// two is the configuration of the site of plan.
func two() *config.InstallConfig {
	var c config.InstallConfig
	c.Networking.MachineNetwork = []config.MachineNetworkEntry{{CIDR: "10.98.0.0/24"}}
	c.Platform.BareMetal = &config.BareMetalPlatform{APIVIPs: []string{"10.98.0.5"}, IngressVIPs: []string{"10.98.0.6"}, Hosts: []config.Host{
		{Name: "cp-1", BootMACAddress: "52:54:00:00:00:01", BMC: config.BMC{Address: "https://10.99.0.1/redfish/v1/Systems/1", Username: "u"}},
	}}
	c.ControlPlane.Fencing = &config.Fencing{Credentials: []config.FencingCredential{
		{HostName: "cp-1", Address: "https://10.99.0.1/redfish/v1/Systems/1", Username: "u"}, {HostName: "cp-2", Address: "https://10.99.0.2/redfish/v1/Systems/1", Username: "u"},
	}}
	return &c
}

// moved gives a configuration the new place of plan.
func moved(c *config.InstallConfig) {
	c.Networking.MachineNetwork[0].CIDR = "10.77.0.0/24"
	c.Platform.BareMetal.APIVIPs, c.Platform.BareMetal.IngressVIPs = []string{"10.77.0.5"}, []string{"10.77.0.6"}
}

// TestAFileThatASiteCannotFollowIsRefused with the field of each mistake, and with what does it instead.
func TestAFileThatASiteCannotFollowIsRefused(t *testing.T) {
	was, is := plan().From.Hosts, plan().To.Hosts
	with := func(name, address string) map[string][]netip.Addr {
		return map[string][]netip.Addr{"cp-1": is["cp-1"], "cp-2": is["cp-2"], name: {addr(address)}}
	}
	wide := func(c *config.InstallConfig) { c.Networking.MachineNetwork[0].CIDR = "10.0.0.0/8" }
	for sentence, c := range map[string]struct {
		site, file func(*config.InstallConfig)
		hosts, to  map[string][]netip.Addr
		want       []string // none if it can
	}{
		"the site moves": {file: moved, to: is},
		"a host keeps its address, and another one has none of the networks": {
			site: wide, file: func(c *config.InstallConfig) { wide(c); moved(c); wide(c) }, to: map[string][]netip.Addr{"cp-1": was["cp-1"], "cp-2": {addr("192.0.2.1")}},
			want: []string{"to.hosts[cp-1]: is what cp-1 has now", "--address cp-1=ADDRESS", "to.hosts[cp-2]: 192.0.2.1 is in none"},
		},
		"each host keeps its address, and the virtual IPs change": {
			file: func(c *config.InstallConfig) { c.Platform.BareMetal.APIVIPs = []string{"10.98.0.7"} }, to: was,
			want: []string{"platform.baremetal.apiVIPs: no host gets another address", "holdfast vip remove"},
		},
		"nobody names addresses, and virtual IPs and BMCs change": {
			file: func(c *config.InstallConfig) {
				c.Platform.BareMetal.IngressVIPs = []string{"10.98.0.7"}
				c.ControlPlane.Fencing.Credentials[1].Address = "https://10.99.0.3/redfish/v1/Systems/1"
			},
			want: []string{"platform.baremetal.ingressVIPs: no host", "controlPlane.fencing: no host", "sudo holdfast fencing rotate NODE --address URL"},
		},
		"nothing changes": {to: was, want: []string{"the file names no other address than the site has"}},
		"a lone host gets an address that it may have now": {
			site: wide, file: func(c *config.InstallConfig) { moved(c); wide(c) }, hosts: map[string][]netip.Addr{"cp-1": was["cp-1"]},
			want: []string{"platform.baremetal.apiVIPs: no host gets another address (--address NAME=ADDRESS)"},
		},
		"a lone host gets an address of other networks": {file: moved, hosts: map[string][]netip.Addr{"cp-1": was["cp-1"]}},
		"addresses of BMCs change with those of hosts": {file: func(c *config.InstallConfig) {
			moved(c)
			c.ControlPlane.Fencing.Credentials[1].Address = "https://10.66.0.2/redfish/v1/Systems/1"
			c.Platform.BareMetal.Hosts[0].BMC.Address = "https://10.66.0.1/redfish/v1/Systems/1"
		}, to: is},
		"more than addresses changes": {
			file: func(c *config.InstallConfig) {
				moved(c)
				c.ControlPlane.Fencing.Credentials[1].Username = "v"
				c.Platform.BareMetal.Hosts[0].BootMACAddress = "52:54:00:00:00:09"
				c.Platform.BareMetal.Hosts[0].BMC.Username = "w"
			}, to: is,
			want: []string{"platform.baremetal.hosts[0].bmc.username", "platform.baremetal.hosts[0].bootMACAddress", "only addresses change with a move"},
		},
		"virtual IPs stay, and their network becomes a part of itself": {
			site: func(c *config.InstallConfig) { c.Networking.MachineNetwork[0].CIDR = "10.98.0.0/16" },
			file: func(c *config.InstallConfig) {
				c.ControlPlane.Fencing.Credentials[1].Address = "https://10.66.0.2/redfish/v1/Systems/1"
			},
			to:   map[string][]netip.Addr{"cp-1": {addr("10.98.0.111")}, "cp-2": {addr("10.98.0.12")}}, // and cp-2 stays
			want: []string{"to.apiVIPs[0]: 10.98.0.5 is a virtual IP now, too, in 10.98.0.0/16, and at the new place in 10.98.0.0/24", "to.ingressVIPs[0]: 10.98.0.6", "the same network (networking.machineNetwork)", "to.hosts[cp-2]: is what cp-2 has now"},
		},
		"virtual IPs stay, in the same network": {
			file: func(*config.InstallConfig) {}, to: map[string][]netip.Addr{"cp-1": {addr("10.98.0.111")}, "cp-2": {addr("10.98.0.112")}},
		},
		"a host has the old address of another one": {file: moved, to: with("cp-2", "10.98.0.11"), want: []string{"to.hosts[cp-2]: 10.98.0.11 is the old address of cp-1"}},
	} {
		site, file := two(), two()
		if c.site != nil {
			c.site(site)
		}
		if c.file != nil {
			c.file(file)
		}
		if c.hosts == nil {
			c.hosts = was
		}
		p, err := readdress.New(site, file, c.hosts, c.to)
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%s: %v", sentence, err)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", sentence, err, want)
			}
		}
		if err != nil {
			continue
		}
		got := p.To.Config(site)
		if a, b := got.Platform.BareMetal.Hosts[0].BMC, file.Platform.BareMetal.Hosts[0].BMC; a != b {
			t.Errorf("%s: the BMC of a host is %+v, and the file has %+v", sentence, a, b)
		}
		if a, b := got.ControlPlane.Fencing.Credentials[1], file.ControlPlane.Fencing.Credentials[1]; a != b {
			t.Errorf("%s: an account is %+v, and the file has %+v", sentence, a, b)
		}
	}
}
