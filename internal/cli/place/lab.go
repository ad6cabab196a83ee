package place

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/labprogram"
)

// openLab asks holdfast-lab for the hosts and the API of a lab.
func openLab(ctx context.Context, name string) (Place, error) {
	program, err := labprogram.Beside()
	if err != nil {
		return Place{}, err
	}
	at, err := program.Place(ctx, name)
	if err != nil {
		return Place{}, err
	}
	return ofLab(at), nil
}

func ofLab(at labprogram.Place) Place {
	p := Place{LabLog: at.Log}
	if path, err := at.APIAccess(); err != nil {
		p.NoAPI = err
	} else {
		p.API = []kube.Access{{Kubeconfig: path}}
	}
	for _, h := range at.Hosts {
		p.Hosts = append(p.Hosts, Host{
			Name: h.Name, Run: host.Behind(h.Exec), Read: host.Behind(h.Enter), Root: h.Root,
			Worker: !h.ControlPlane, Lab: true,
		})
	}
	return p
}
