console.log(process.versions.node.split(".")[0]);
