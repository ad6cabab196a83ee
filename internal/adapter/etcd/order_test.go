package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheListOfMembersIsNotOlderThanTheMarkers(t *testing.T) {
	var asked []string
	failed := errors.New("no answer")
	for _, c := range []struct {
		markers, members error
		want             []string
	}{
		{nil, nil, []string{"markers", "members"}},
		{failed, nil, []string{"markers"}},
		{nil, failed, []string{"markers", "members"}},
	} {
		asked = nil
		_, _, err := inOrder(t.Context(),
			func(context.Context) (map[state.MemberID]uint64, error) {
				asked = append(asked, "markers")
				return nil, c.markers
			},
			func(context.Context) ([]state.EtcdMember, error) {
				asked = append(asked, "members")
				return nil, c.members
			})
		if !slices.Equal(asked, c.want) || (err == nil) != (c.markers == nil && c.members == nil) {
			t.Errorf("asked %v, %v", asked, err)
		}
	}
}
