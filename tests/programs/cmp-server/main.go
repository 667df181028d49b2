// Serves one config management plugin with Argo CD's own implementation of the protocol, for
// tests. The argument is a directory with the file plugin.yaml.
package main

import (
	"log"
	"net"
	"os"

	"google.golang.org/grpc"

	"github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"github.com/argoproj/argo-cd/v3/cmpserver/plugin"
	"github.com/argoproj/argo-cd/v3/common"
)

func main() {
	config, err := plugin.ReadPluginConfig(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", config.Address())
	if err != nil {
		log.Fatal(err)
	}
	service := plugin.NewService(plugin.CMPServerInitConstants{PluginConfig: *config})
	if err := service.Init(common.GetCMPWorkDir()); err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(apiclient.MaxGRPCMessageSize))
	apiclient.RegisterConfigManagementPluginServiceServer(server, service)
	log.Fatal(server.Serve(listener))
}
