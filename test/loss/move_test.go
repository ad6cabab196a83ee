package loss_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

// movedWithin has room for two boots of each host on a full machine.
const movedWithin = 12 * time.Minute

const asAdmin = "export KUBECONFIG=" + state.AdminKubeconfig + "; "

// TestASiteMovesToAnotherNetworkAndBack announces a move, cuts the power of all hosts, plugs them
// into another network and switches them on. Nobody types anything there. Then the site goes back,
// shut down in order, with a power cut while the first host takes its addresses.
func TestASiteMovesToAnotherNetworkAndBack(t *testing.T) {
	s := up(t, *planes)
	hosts := s.names()
	s.on(hosts[0], markers("before"))

	there := s.configFile("--moved")
	s.announces(there, func(number string) string { return "10.77.0." + number })
	for _, h := range hosts {
		s.power(h, "cut")
	}
	s.plug()
	began := time.Now()
	for _, h := range hosts {
		s.power(h, "on")
	}
	s.moved(began)
	s.on(hosts[0], markersAre("before"))
	s.on(hosts[0], markers("there"))

	back := s.configFile()
	s.announces(back, func(number string) string { return "10.98.0." + number })
	for _, h := range hosts {
		_, _ = s.Sh(t.Context(), h, "systemctl poweroff") // the shell may end with the host
	}
	for _, h := range hosts {
		s.eventually(3*time.Minute, h+" is off", func() error {
			if _, err := s.Sh(t.Context(), h, "true"); err == nil {
				return errors.New("it runs")
			}
			return nil
		})
	}
	s.plug("--back")
	began = time.Now()
	for _, h := range hosts {
		s.power(h, "on")
	}
	s.eventually(2*time.Minute, hosts[0]+" begins to take its addresses", func() error {
		out, err := s.Sh(t.Context(), hosts[0], "cat /run/holdfast/readdress.json")
		if err == nil && !strings.Contains(out, `"act":"begin"`) && !strings.Contains(out, `"act":"move"`) && !strings.Contains(out, `"act":"boot"`) {
			err = errors.New(out)
		}
		return err
	})
	s.power(hosts[0], "cut")
	s.power(hosts[0], "on")
	s.moved(began)
	s.on(hosts[0], markersAre("before"))
	s.on(hosts[0], markersAre("there"))
}

// markers writes objects, each of which the API acknowledges.
func markers(name string) string {
	return asAdmin + fmt.Sprintf("for i in $(seq 1 20); do kubectl create configmap %s-$i --from-literal=i=$i || exit 1; done", name)
}

func markersAre(name string) string {
	return asAdmin + fmt.Sprintf("for i in $(seq 1 20); do [ \"$(kubectl get configmap %[1]s-$i -o jsonpath={.data.i})\" = $i ] || { echo %[1]s-$i is lost; exit 1; }; done", name)
}

// names returns the control planes.
func (s site) names() []string {
	var out []string
	for _, h := range s.Lab.Layout.ControlPlanes() {
		out = append(out, h.Name)
	}
	return out
}

// configFile writes an install-config of the site.
func (s site) configFile(flags ...string) string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "site.yaml")
	if _, err := s.Holdfast(s.Context(), append([]string{"lab", "install-config", "--name", s.LabName(), "--out", file}, flags...)...); err != nil {
		s.Fatal(err)
	}
	return file
}

// announces gives each host the plan of a move, from the first host.
func (s site) announces(file string, address func(number string) string) {
	s.Helper()
	hosts := s.names()
	s.giveFile(hosts[0], file, "/root/moved.yaml")
	command := asAdmin + "holdfast site readdress announce --install-config /root/moved.yaml --yes --by test"
	for _, h := range hosts {
		own := s.Address(h, lab.V4).String()
		command += fmt.Sprintf(" --address %s=%s", h, address(own[strings.LastIndexByte(own, '.')+1:]))
	}
	s.on(hosts[0], command)
}

// plug puts the hosts into another network, or back.
func (s site) plug(flags ...string) {
	s.Helper()
	if _, err := s.Holdfast(s.Context(), append([]string{"lab", "move", "--name", s.LabName()}, flags...)...); err != nil {
		s.Fatal(err)
	}
	if err := s.Reopen(); err != nil {
		s.Fatal(err)
	}
}

// moved waits until the move is over everywhere, and the site is whole.
func (s site) moved(began time.Time) {
	s.Helper()
	first := s.names()[0]
	s.eventually(movedWithin, "the move is over on every host", func() error {
		// a host that boots stops what runs in it: nsenter then stops itself, and would wait for ever
		ctx, stop := context.WithTimeout(s.Context(), 20*time.Second)
		defer stop()
		out, err := s.Sh(ctx, first, asAdmin+"holdfast site readdress show")
		if err == nil && !strings.Contains(out, "no move is announced") {
			err = errors.New(out)
		}
		return err
	})
	s.Logf("the move was over %.0f s after the hosts were switched on", time.Since(began).Seconds())
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(s.Context()) })
	s.Logf("the site was whole %.0f s after the hosts were switched on", time.Since(began).Seconds())
}
