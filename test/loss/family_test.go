package loss_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// familyWithin is the time within which a site has the second family. Each host boots once, in
// its turn.
const familyWithin = 25 * time.Minute

// secondAddress gives a host an address of the second family, and a default route, as the site
// would: now and at each boot.
const secondAddress = `cat > /etc/systemd/system/second-address.service <<U
[Unit]
After=network.target
[Service]
ExecStart=/bin/sh -c 'while true; do ip -6 addr show dev eth0 | grep -q fd98::%[1]s/ || ip -6 addr add fd98::%[1]s/64 dev eth0; ip -6 route show default | grep -q eth0 || ip -6 route add default via fd98::1 dev eth0; sleep 1; done'
[Install]
WantedBy=multi-user.target
U
systemctl enable --now second-address.service`

// TestASiteGetsTheSecondFamily adds IPv6 to a site of IPv4, and cuts the power of the first host
// once its API server serves both, and again once it waits for its boot.
func TestASiteGetsTheSecondFamily(t *testing.T) {
	s := up(t, *planes)
	first := s.names()[0]
	for _, h := range s.Lab.Layout.Hosts {
		own := s.Address(h.Name, "v4").String()
		s.on(h.Name, fmt.Sprintf(secondAddress, own[strings.LastIndexByte(own, '.')+1:]))
	}
	s.on(first, markers("before"))
	file := s.configFile()
	s.addsFamily(file)
	s.giveFile(first, file, "/root/both.yaml")
	began := time.Now()
	s.on(first, asAdmin+"holdfast site dual-stack apply --install-config /root/both.yaml --yes --by test --timeout 1s || [ $? = 3 ]")
	const served, written = "served", "written"
	at := ""
	for _, stages := range []string{served + " " + written, written} {
		if at == written {
			t.Logf("NOT SHOWN: a cut while %s serves both and has written nothing; its files had both at the first cut, whose boot was the one that it waits for", first)
			break
		}
		s.eventually(5*time.Minute, first+" is "+stages, func() error {
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			out, err := s.Sh(ctx, first, "cat /var/lib/holdfast/dualstack/plan.json")
			for stage := range strings.FieldsSeq(stages) {
				if err == nil && strings.Contains(out, `"stage": "`+stage+`"`) {
					at = stage
					return nil
				}
			}
			return errors.Join(err, errors.New(out))
		})
		s.power(first, "cut")
		s.power(first, "on")
	}
	s.eventually(familyWithin, "the plan is over on every host", func() error {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		out, err := s.Sh(ctx, first, asAdmin+"holdfast site dual-stack status")
		if err == nil && !strings.Contains(out, "there is no plan") {
			err = errors.New(out)
		}
		return err
	})
	t.Logf("both families %.0f s after the command", time.Since(began).Seconds())
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	t.Logf("the site was whole %.0f s after the command", time.Since(began).Seconds())
	s.on(first, markersAre("before"))
	s.on(first, asAdmin+hasBoth)
}

// addsFamily changes the file of a site of IPv4.
func (s site) addsFamily(file string) {
	s.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	text := string(data)
	for was, is := range map[string]string{
		"  - cidr: 10.98.0.0/24\n": "  - cidr: fd98::/64\n", "    hostPrefix: 23\n": "  - cidr: fd44::/48\n    hostPrefix: 64\n", "  - 172.30.0.0/16\n": "  - fd96::/112\n",
	} {
		if strings.Count(text, was) != 1 {
			s.Fatalf("the site's file has no line %q:\n%s", was, text)
		}
		text = strings.Replace(text, was, was+is, 1)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// hasBoth shows that each host and each pod of the cluster's DNS has addresses of both families,
// that these pods answer by the second one, and that a Service gets one of each.
const hasBoth = `
two() { set -- $1; [ $# = 2 ]; }
for n in $(kubectl get nodes -o name); do
  two "$(kubectl get $n -o jsonpath='{.spec.podCIDRs[*]}')" || { echo $n has not two shares; exit 1; }
  two "$(kubectl get $n -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}')" || { echo $n has not two addresses; exit 1; }
done
for p in $(kubectl get pods -n kube-system -l k8s-app=kube-dns -o name); do
  set -- $(kubectl get -n kube-system $p -o jsonpath='{.status.podIPs[*].ip}')
  [ $# = 2 ] || { echo $p has $*; exit 1; }
  timeout 5 bash -c "exec 3<>/dev/tcp/$2/9153" || { echo $p does not answer at $2; exit 1; }
done
kubectl create service clusterip both --tcp=80 -o yaml --dry-run=client | sed 's/^spec:/spec:\n  ipFamilyPolicy: RequireDualStack/' | kubectl create -f -
two "$(kubectl get service both -o jsonpath='{.spec.clusterIPs[*]}')" || { echo the Service has not two addresses; exit 1; }
`
