package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/version"
)

// Version returns the version of the server that answers, and the minor release as
// which it behaves.
func (c *Client) Version(ctx context.Context) (version.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var out version.Info
	data, err := c.set.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return out, fmt.Errorf("ask an API server for its version: %w", err)
	}
	return out, nil
}
