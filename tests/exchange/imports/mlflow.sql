-- Five tables of a store that MLflow 3.17.2 wrote.
BEGIN;
CREATE TABLE "experiments" (
 experiment_id INTEGER NOT NULL,
 name VARCHAR(256) NOT NULL,
 artifact_location VARCHAR(256),
 lifecycle_stage VARCHAR(32),
 creation_time BIGINT,
 last_update_time BIGINT,
 workspace VARCHAR(63) DEFAULT 'default' NOT NULL,
 CONSTRAINT experiment_pk PRIMARY KEY (experiment_id),
 CONSTRAINT experiments_lifecycle_stage CHECK (lifecycle_stage IN ('active', 'deleted')),
 CONSTRAINT uq_experiments_workspace_name UNIQUE (workspace, name)
);
CREATE TABLE "runs" (
 run_uuid VARCHAR(32) NOT NULL,
 name VARCHAR(250),
 source_type VARCHAR(20),
 source_name VARCHAR(500),
 entry_point_name VARCHAR(50),
 user_id VARCHAR(256),
 status VARCHAR(9),
 start_time BIGINT,
 end_time BIGINT,
 source_version VARCHAR(50),
 lifecycle_stage VARCHAR(20),
 artifact_uri VARCHAR(200),
 experiment_id INTEGER, deleted_time BIGINT,
 CONSTRAINT run_pk PRIMARY KEY (run_uuid),
 CONSTRAINT runs_lifecycle_stage CHECK (lifecycle_stage IN ('active', 'deleted')),
 CONSTRAINT source_type CHECK (source_type IN ('NOTEBOOK', 'JOB', 'LOCAL', 'UNKNOWN', 'PROJECT')),
 FOREIGN KEY(experiment_id) REFERENCES experiments (experiment_id),
 CHECK (status IN ('SCHEDULED', 'FAILED', 'FINISHED', 'RUNNING', 'KILLED'))
);
CREATE TABLE "metrics" (
 "key" VARCHAR(250) NOT NULL,
 value FLOAT NOT NULL,
 timestamp BIGINT NOT NULL,
 run_uuid VARCHAR(32) NOT NULL,
 step BIGINT DEFAULT '0' NOT NULL,
 is_nan BOOLEAN DEFAULT '0' NOT NULL,
 CONSTRAINT metric_pk PRIMARY KEY ("key", timestamp, step, run_uuid, value, is_nan),
 FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid),
 CHECK (is_nan IN (0, 1))
);
CREATE TABLE "params" (
 "key" VARCHAR(250) NOT NULL,
 value VARCHAR(8000) NOT NULL,
 run_uuid VARCHAR(32) NOT NULL,
 CONSTRAINT param_pk PRIMARY KEY ("key", run_uuid),
 FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid)
);
CREATE TABLE "tags" (
 "key" VARCHAR(250) NOT NULL,
 value VARCHAR(8000),
 run_uuid VARCHAR(32) NOT NULL,
 CONSTRAINT tag_pk PRIMARY KEY ("key", run_uuid),
 FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid)
);
INSERT INTO experiments VALUES(0,'Default','mlruns/0','active',1795284183452,1795284183452,'default');
INSERT INTO experiments VALUES(1,'cartpole','artifacts','active',1795284183456,1795284183456,'default');
INSERT INTO experiments VALUES(2,'empty','artifacts','active',1795284183462,1795284183462,'default');
INSERT INTO runs VALUES('eebfd367ad1a45dfab1ef6e5b707fd19','ppo-0','UNKNOWN','','','unknown','FINISHED',1700000000000,1700000006000,'','active','artifacts/eebfd367ad1a45dfab1ef6e5b707fd19/artifacts',1,NULL);
INSERT INTO runs VALUES('1e35567b8d5e4886927b0f65412cc869','ppo-1','UNKNOWN','','','unknown','FINISHED',1700000000000,1700000006000,'','active','artifacts/1e35567b8d5e4886927b0f65412cc869/artifacts',1,NULL);
INSERT INTO runs VALUES('0fff40ca0333454d9984a7b24137fb75','a2c-0','UNKNOWN','','','unknown','FINISHED',1700000000000,1700000006000,'','active','artifacts/0fff40ca0333454d9984a7b24137fb75/artifacts',1,NULL);
INSERT INTO runs VALUES('597ed9625f394a198c2651c34d85ec0b','a2c-1','UNKNOWN','','','unknown','FINISHED',1700000000000,1700000006000,'','active','artifacts/597ed9625f394a198c2651c34d85ec0b/artifacts',1,NULL);
INSERT INTO runs VALUES('83d42d8572b44ebcb5895bcb3f9bb980','parent','UNKNOWN','','','unknown','FINISHED',1700000000000,1700000000000,'','active','artifacts/83d42d8572b44ebcb5895bcb3f9bb980/artifacts',1,NULL);
INSERT INTO runs VALUES('380adead9367439ca594c2b914173a38','ppo-2','UNKNOWN','','','unknown','FINISHED',1700000000000,1700000000000,'','active','artifacts/380adead9367439ca594c2b914173a38/artifacts',1,NULL);
INSERT INTO runs VALUES('d8b27f28cf7d481d9b9dc7c113d9cebb','ppo-3','UNKNOWN','','','unknown','KILLED',1700000000000,1700000000000,'','active','artifacts/d8b27f28cf7d481d9b9dc7c113d9cebb/artifacts',1,NULL);
INSERT INTO runs VALUES('5f29a3ea3e96468b9519cb67997536e4','deleted','UNKNOWN','','','unknown','RUNNING',1700000000000,NULL,'','deleted','artifacts/5f29a3ea3e96468b9519cb67997536e4/artifacts',1,1795284184502);
INSERT INTO metrics VALUES('eval/mean_reward',10.0,1700000001000,'eebfd367ad1a45dfab1ef6e5b707fd19',100,0);
INSERT INTO metrics VALUES('eval/mean_reward',20.0,1700000002000,'eebfd367ad1a45dfab1ef6e5b707fd19',200,0);
INSERT INTO metrics VALUES('eval/mean_reward',30.0,1700000003000,'eebfd367ad1a45dfab1ef6e5b707fd19',300,0);
INSERT INTO metrics VALUES('eval/mean_reward',40.0,1700000004000,'eebfd367ad1a45dfab1ef6e5b707fd19',400,0);
INSERT INTO metrics VALUES('eval/mean_reward',50.0,1700000005000,'eebfd367ad1a45dfab1ef6e5b707fd19',500,0);
INSERT INTO metrics VALUES('eval/mean_reward',11.0,1700000001000,'1e35567b8d5e4886927b0f65412cc869',100,0);
INSERT INTO metrics VALUES('eval/mean_reward',21.0,1700000002000,'1e35567b8d5e4886927b0f65412cc869',200,0);
INSERT INTO metrics VALUES('eval/mean_reward',31.0,1700000003000,'1e35567b8d5e4886927b0f65412cc869',300,0);
INSERT INTO metrics VALUES('eval/mean_reward',41.0,1700000004000,'1e35567b8d5e4886927b0f65412cc869',400,0);
INSERT INTO metrics VALUES('eval/mean_reward',51.0,1700000005000,'1e35567b8d5e4886927b0f65412cc869',500,0);
INSERT INTO metrics VALUES('eval/mean_reward',10.0,1700000001000,'0fff40ca0333454d9984a7b24137fb75',100,0);
INSERT INTO metrics VALUES('eval/mean_reward',20.0,1700000002000,'0fff40ca0333454d9984a7b24137fb75',200,0);
INSERT INTO metrics VALUES('eval/mean_reward',30.0,1700000003000,'0fff40ca0333454d9984a7b24137fb75',300,0);
INSERT INTO metrics VALUES('eval/mean_reward',40.0,1700000004000,'0fff40ca0333454d9984a7b24137fb75',400,0);
INSERT INTO metrics VALUES('eval/mean_reward',50.0,1700000005000,'0fff40ca0333454d9984a7b24137fb75',500,0);
INSERT INTO metrics VALUES('eval/mean_reward',11.0,1700000001000,'597ed9625f394a198c2651c34d85ec0b',100,0);
INSERT INTO metrics VALUES('eval/mean_reward',21.0,1700000002000,'597ed9625f394a198c2651c34d85ec0b',200,0);
INSERT INTO metrics VALUES('eval/mean_reward',31.0,1700000003000,'597ed9625f394a198c2651c34d85ec0b',300,0);
INSERT INTO metrics VALUES('eval/mean_reward',41.0,1700000004000,'597ed9625f394a198c2651c34d85ec0b',400,0);
INSERT INTO metrics VALUES('eval/mean_reward',51.0,1700000005000,'597ed9625f394a198c2651c34d85ec0b',500,0);
INSERT INTO metrics VALUES('eval/mean_reward',5.0,1700000000000,'380adead9367439ca594c2b914173a38',100,0);
INSERT INTO metrics VALUES('eval/mean_reward',0.0,1700000000000,'380adead9367439ca594c2b914173a38',200,1);
INSERT INTO metrics VALUES('eval/mean_reward',5.0,1700000000000,'d8b27f28cf7d481d9b9dc7c113d9cebb',100,0);
INSERT INTO metrics VALUES('eval/mean_reward',1.0,1700000000000,'5f29a3ea3e96468b9519cb67997536e4',1,0);
INSERT INTO params VALUES('algo','ppo','eebfd367ad1a45dfab1ef6e5b707fd19');
INSERT INTO params VALUES('env_id','CartPole-v1','eebfd367ad1a45dfab1ef6e5b707fd19');
INSERT INTO params VALUES('seed','0','eebfd367ad1a45dfab1ef6e5b707fd19');
INSERT INTO params VALUES('learning_rate','0.001','eebfd367ad1a45dfab1ef6e5b707fd19');
INSERT INTO params VALUES('algo','ppo','1e35567b8d5e4886927b0f65412cc869');
INSERT INTO params VALUES('env_id','CartPole-v1','1e35567b8d5e4886927b0f65412cc869');
INSERT INTO params VALUES('seed','1','1e35567b8d5e4886927b0f65412cc869');
INSERT INTO params VALUES('learning_rate','0.002','1e35567b8d5e4886927b0f65412cc869');
INSERT INTO params VALUES('algo','a2c','0fff40ca0333454d9984a7b24137fb75');
INSERT INTO params VALUES('env_id','CartPole-v1','0fff40ca0333454d9984a7b24137fb75');
INSERT INTO params VALUES('seed','0','0fff40ca0333454d9984a7b24137fb75');
INSERT INTO params VALUES('learning_rate','0.001','0fff40ca0333454d9984a7b24137fb75');
INSERT INTO params VALUES('algo','a2c','597ed9625f394a198c2651c34d85ec0b');
INSERT INTO params VALUES('env_id','CartPole-v1','597ed9625f394a198c2651c34d85ec0b');
INSERT INTO params VALUES('seed','1','597ed9625f394a198c2651c34d85ec0b');
INSERT INTO params VALUES('learning_rate','0.002','597ed9625f394a198c2651c34d85ec0b');
INSERT INTO params VALUES('algo','ppo','380adead9367439ca594c2b914173a38');
INSERT INTO params VALUES('env_id','CartPole-v1','380adead9367439ca594c2b914173a38');
INSERT INTO params VALUES('seed','2','380adead9367439ca594c2b914173a38');
INSERT INTO params VALUES('algo','ppo','d8b27f28cf7d481d9b9dc7c113d9cebb');
INSERT INTO params VALUES('env_id','CartPole-v1','d8b27f28cf7d481d9b9dc7c113d9cebb');
INSERT INTO params VALUES('seed','3','d8b27f28cf7d481d9b9dc7c113d9cebb');
INSERT INTO tags VALUES('mlflow.runName','ppo-0','eebfd367ad1a45dfab1ef6e5b707fd19');
INSERT INTO tags VALUES('mlflow.runName','ppo-1','1e35567b8d5e4886927b0f65412cc869');
INSERT INTO tags VALUES('mlflow.runName','a2c-0','0fff40ca0333454d9984a7b24137fb75');
INSERT INTO tags VALUES('mlflow.runName','a2c-1','597ed9625f394a198c2651c34d85ec0b');
INSERT INTO tags VALUES('mlflow.runName','parent','83d42d8572b44ebcb5895bcb3f9bb980');
INSERT INTO tags VALUES('mlflow.runName','ppo-2','380adead9367439ca594c2b914173a38');
INSERT INTO tags VALUES('mlflow.runName','ppo-3','d8b27f28cf7d481d9b9dc7c113d9cebb');
INSERT INTO tags VALUES('mlflow.runName','deleted','5f29a3ea3e96468b9519cb67997536e4');
COMMIT;
